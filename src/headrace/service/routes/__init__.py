"""The routes, by what they are about. Each turns one request into calls of the reception, and what comes into JSON."""
