"""The embed stage of search as a service of its own: OpenAI's `POST /v1/embeddings` behind an honest door."""
