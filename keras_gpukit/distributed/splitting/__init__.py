"""Splits a model over devices.

`layers` lists the layers and copies the model to the devices, `costs` measures them and cuts the
list, and `steps` keeps backward pass and updates on the devices of their layers.
"""
