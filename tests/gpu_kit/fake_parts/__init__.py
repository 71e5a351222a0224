"""Parts for the tests of the runner; they load no TensorFlow."""
