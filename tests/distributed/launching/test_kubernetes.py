"""Manifests: valid for Kubernetes and Kubeflow, and such that the pods find each other."""

import kubernetes_validate
import pytest
import yaml

from keras_gpukit.distributed.clusters import read_cluster
from keras_gpukit.distributed.launching.job import Job
from keras_gpukit.distributed.launching.job_templates import Pods, indexed_job, train_job
from keras_gpukit.records import Cluster

STARTED = ["python", "-m", "keras_gpukit.scripts.launched_script"]
PODS = Pods(image="registry.example/team/train:1")
JOBS = {
    "plain": {"gpus_per_worker": 0},
    "of GPUs and cores": {"gpus_per_worker": 8, "cpus_per_worker": 32},
    "restarted": {"gpus_per_worker": 1, "restarts": 3},
    "of parameter servers": {"gpus_per_worker": 1, "parameter_servers": 2},
    "whose arguments need quotes": {
        "gpus_per_worker": 0,
        "command": ("train.py", "--note", "a: \"b\" {{ c }} # 'd'", "é"),
    },
    "of a module": {"gpus_per_worker": 0, "command": ("-m", "team.train", "--epochs=2")},
}


def job(name="train", command=("train.py",), workers=2, **settings) -> Job:
    return Job(name=name, command=command, workers=workers, **settings)


def of_indexed_job(which: Job, pods: Pods = PODS) -> tuple[dict, dict]:
    return tuple(yaml.safe_load_all(indexed_job(which, pods)))


def of_train_job(which: Job, pods: Pods = PODS) -> tuple[dict, dict]:
    return tuple(yaml.safe_load_all(train_job(which, pods)))


@pytest.mark.parametrize("case", JOBS)
def test_an_indexed_job_and_its_service_fit_the_schemas_of_kubernetes(case):
    which = job(**JOBS[case])
    manifests = of_indexed_job(which, Pods(image="train", volume=("data", "/d")))
    for manifest in manifests:
        kubernetes_validate.validate(manifest, kubernetes_validate.latest_version(), strict=True)
    (container,) = manifests[1]["spec"]["template"]["spec"]["containers"]
    assert container["command"] == [*STARTED, *which.command]


@pytest.mark.parametrize("case", JOBS)
def test_a_train_job_and_its_runtime_fit_what_kubeflow_publishes(case):
    which = job(**JOBS[case])
    runtime, manifest = of_train_job(which, Pods(image="train", volume=("data", "/d")))
    assert_known(runtime, "TrainingRuntime")
    assert_known(manifest, "TrainJob")
    assert manifest["spec"]["trainer"]["command"] == [*STARTED, *which.command]
    # What the models do not check: the pods, by the schema of a Pod of Kubernetes itself.
    (node,) = runtime["spec"]["template"]["spec"]["replicatedJobs"]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "node"}}
    pod["spec"] = node["template"]["spec"]["template"]["spec"]
    kubernetes_validate.validate(pod, kubernetes_validate.latest_version(), strict=True)


def assert_known(manifest: dict, kind: str) -> None:
    """The models of Kubeflow's package drop what they do not know; they may add defaults."""
    from kubeflow_trainer_api import models  # loading it takes a second, which not all need

    model = getattr(models, f"TrainerV1alpha1{kind}")
    assert_within(manifest, model.from_dict(manifest).to_dict())


def assert_within(part, whole) -> None:
    if isinstance(part, dict):
        for key, value in part.items():
            assert key in whole, f"{key} was dropped"
            assert_within(value, whole[key])
    elif isinstance(part, list):
        assert len(part) == len(whole)
        for each, other in zip(part, whole, strict=True):
            assert_within(each, other)
    else:
        assert part == whole


def clusters_of(manifest: dict, container: dict) -> list[Cluster]:
    """What each pod reads from its variables: the manifest's, and those that Kubernetes sets."""
    given = {each["name"]: each["value"] for each in container["env"]}
    given["KUBERNETES_SERVICE_HOST"] = "10.0.0.1"
    size = manifest["spec"].get("completions") or manifest["spec"]["trainer"]["numNodes"]
    return [read_cluster({**given, "JOB_COMPLETION_INDEX": str(pod)}) for pod in range(size)]


def test_the_pods_of_a_job_find_each_other():
    service, manifest = of_indexed_job(job("my_train", gpus_per_worker=0, workers=3))
    spec = manifest["spec"]["template"]["spec"]
    clusters = clusters_of(manifest, spec["containers"][0])
    # Kubernetes names pod i of an Indexed Job JOB-i, in the domain of the headless Service.
    assert (manifest["metadata"]["name"], spec["subdomain"]) == ("my-train", "my-train")
    assert service["metadata"]["name"] == "my-train"
    assert service["spec"]["clusterIP"] == "None"
    addresses = tuple(f"my-train-{index}.my-train:2222" for index in range(3))
    assert [each.addresses for each in clusters] == [{"worker": addresses}] * 3
    assert [each.worker.index for each in clusters] == [0, 1, 2]
    # Those of a TrainJob do too.
    _, manifest = of_train_job(job(gpus_per_worker=0))
    clusters = clusters_of(manifest, manifest["spec"]["trainer"])
    # A JobSet names pod i of its first replica of "node" JOBSET-node-0-i, in its own domain.
    addresses = ("train-node-0-0.train:2222", "train-node-0-1.train:2222")
    assert [each.addresses for each in clusters] == [{"worker": addresses}] * 2
    assert [each.worker.index for each in clusters] == [0, 1]


def test_parameter_servers_are_the_last_pods_and_the_job_ends_with_its_chief():
    which = job(gpus_per_worker=0, parameter_servers=1)
    _, manifest = of_indexed_job(which)
    pods = clusters_of(manifest, manifest["spec"]["template"]["spec"]["containers"][0])
    roles = [(each.task_type, each.task_index) for each in pods]
    assert roles == [("chief", 0), ("worker", 0), ("worker", 1), ("ps", 0)]
    ends_with = {"rules": [{"succeededIndexes": "0"}]}
    assert manifest["spec"]["successPolicy"] == ends_with
    runtime, _ = of_train_job(which)
    (node,) = runtime["spec"]["template"]["spec"]["replicatedJobs"]
    assert node["template"]["spec"]["successPolicy"] == ends_with


def test_each_worker_gets_its_gpus_cores_and_memory_and_restarts_start_all_pods_again():
    which = job(gpus_per_worker=4, cpus_per_worker=16)
    resources = {"limits": {"nvidia.com/gpu": 4}, "requests": {"cpu": 16}}
    _, manifest = of_indexed_job(which, Pods(image="train:1", shared_memory="2Gi"))
    spec = manifest["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    assert container["resources"] == resources
    assert container["volumeMounts"] == [{"name": "shared-memory", "mountPath": "/dev/shm"}]
    assert spec["volumes"][0]["emptyDir"] == {"medium": "Memory", "sizeLimit": "2Gi"}
    assert (container["image"], container["command"]) == ("train:1", [*STARTED, "train.py"])
    assert {"name": "NCCL_DEBUG", "value": "WARN"} in container["env"]
    _, manifest = of_train_job(which)
    assert manifest["spec"]["trainer"]["resourcesPerNode"] == resources
    which = job(gpus_per_worker=0, restarts=3)
    _, manifest = of_indexed_job(which)
    assert manifest["spec"]["backoffLimit"] == 6  # the death of one pod ends the other, too
    runtime, _ = of_train_job(which)
    assert runtime["spec"]["template"]["spec"]["failurePolicy"] == {"maxRestarts": 3}
    _, manifest = of_indexed_job(job(gpus_per_worker=0))
    assert manifest["spec"]["backoffLimit"] == 0


@pytest.mark.parametrize("write", [indexed_job, train_job])
def test_each_setting_says_why(write):
    lines = write(job(gpus_per_worker=1, restarts=1), PODS).splitlines()
    settings = ("sizeLimit", "NCCL_DEBUG", "nvidia.com/gpu: 1", "publishNotReady", "tolerations")
    for setting in settings:
        at = next(index for index, line in enumerate(lines) if setting in line)
        # The comment may begin some lines above it.
        assert any(line.strip().startswith("#") for line in lines[max(0, at - 6) : at]), setting


@pytest.mark.parametrize("write", [indexed_job, train_job])
def test_what_kubernetes_would_refuse_is_refused_before(write):
    with pytest.raises(ValueError, match=r"letters, digits and dashes.*Received: name='1'"):
        write(job("1", gpus_per_worker=0), PODS)
    with pytest.raises(ValueError, match="at most 50 characters"):
        write(job("a" * 51, gpus_per_worker=0), PODS)
    with pytest.raises(ValueError, match=r"Give --gpus-per-worker.*gpus_per_worker=None"):
        write(job(), PODS)
