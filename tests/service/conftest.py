"""Fixtures for the service are functions in `service_support`; nothing is shared between tests."""
