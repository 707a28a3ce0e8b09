"""The service: documents over HTTP, durable before they are accepted, honest under overload."""
