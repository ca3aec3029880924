"""A Chromium for the tests of the console: found on this machine, or installed."""

from infra.browser.chromium import chromium

__all__ = ["chromium"]
