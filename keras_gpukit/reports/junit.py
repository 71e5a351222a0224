"""Conditions of a comparison as JUnit XML, which CI systems show as tests."""

from __future__ import annotations

from xml.etree import ElementTree

from keras_gpukit.records.comparison import RunComparison
from keras_gpukit.reports import comparison
from keras_gpukit.reports.units import printable


def junit(compared: RunComparison) -> str:
    """Returns one test case per condition.

    It is a failure if the condition is met, an error if it is unknown, skipped if inconclusive.
    """
    states = [each.is_met for each in compared.conditions]
    suite = ElementTree.Element(
        "testsuite",
        name="keras-gpukit compare",
        tests=str(len(states)),
        failures=str(states.count(True)),
        errors=str(states.count(None)),
        skipped=str(sum(each.is_inconclusive for each in compared.conditions)),
    )
    why = "\n".join((comparison.headline(compared)[1], *comparison.reasons(compared)))
    for each in compared.conditions:
        name = f"{compared.a} → {compared.b}"
        names = {"classname": printable(name), "name": printable(each.expression)}
        case = ElementTree.SubElement(suite, "testcase", names, time="0")
        line = comparison.condition_line(each, compared)
        if each.is_met is not False or each.is_inconclusive:
            tags = {None: "error", True: "failure", False: "skipped"}
            made = ElementTree.SubElement(case, tags[each.is_met], message=printable(line))
            made.text = printable(why)
    suites = ElementTree.Element("testsuites")
    suites.append(suite)
    ElementTree.indent(suites)
    text = ElementTree.tostring(suites, encoding="unicode")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{text}\n'
