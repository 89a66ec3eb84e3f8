"""AgentMiddleware classes that stay right across processes; importing the package loads nothing heavy."""
