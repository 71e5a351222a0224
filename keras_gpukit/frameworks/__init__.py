"""Private names of TensorFlow and Keras, which no other room uses; ruff checks it.

A module for each part of the frameworks, a small function for each use. Unless its docstring says
something else, its names were seen on TensorFlow 2.21 and on Keras 3.12 to 3.15, and without them
it raises AttributeError or ImportError, upon which its callers leave out what needs the names.
"""
