"""The fault harness: real processes, a seeded schedule of faults, and a checker that trusts no one."""
