# SPDX-License-Identifier: Apache-2.0
"""The version, for the package and for who asks; that of the project, which a test compares."""
__version__ = "0.1.0"
