"""The query as data: operators, predicates and policies, frozen; checks, binding to columns, normal form, and its text.

Conditions are data, never closures: they are compared, printed, pushed down and compiled. Text is read in `kleene.language`;
how a query is answered is decided in `kleene.plan`.
"""
