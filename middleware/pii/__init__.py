"""Personal data, masked before it is kept, streamed or shown."""
