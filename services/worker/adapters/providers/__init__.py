"""Language models: one HTTP provider, a pure specification per API, and a scripted one."""
