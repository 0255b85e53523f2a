"""Real runs of the OpenAI Agents SDK with a model that says what a test tells it."""
