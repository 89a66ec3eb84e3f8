"""A tool call that was executed once is not executed again unasked."""
