"""Why a query does not match: the query without one of its constraints, asked again, and what combinations of events break."""
