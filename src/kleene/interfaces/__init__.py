"""What users call: `Query`, workloads, rules, SQL, the command, the match explorer, why-not.

Checks what users give, and hands it to plan, engine and runtime. Nothing below imports from here.
"""
