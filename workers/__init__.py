"""Human approvals for LangChain and LangGraph agents on many workers."""
