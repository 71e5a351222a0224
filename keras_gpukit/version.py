"""The package's version, read by the build and by the package itself."""

__version__ = "0.1.0"
