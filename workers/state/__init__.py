"""All records in Redis, one noun a file, changed only by the Lua scripts in `lua/`."""
