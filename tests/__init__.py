"""The tests: one folder per part of the house, one file per subject.

A package, so that tests can share helpers: ``from tests.filecheck import filecheck``.
"""
