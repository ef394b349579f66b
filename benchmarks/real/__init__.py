"""Questions about real flights: `flights.py` has the events, `questions.py` what is asked; the others say it elsewhere."""
