"""AGG over the matches of another plan: from when to when each match counts, and what it contributes."""
