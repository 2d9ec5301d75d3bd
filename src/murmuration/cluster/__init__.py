"""The table: nodes, resources, constraints, transactions, allocation types, and the reasons for a
decision."""
