"""The match explorer: one HTML file with a query's events, its matches over them, and its plan.

`explore.py` shows the steps: `selection.py` reads the events, `found.py` finds matches with the rows of their events,
`document.py` selects what is embedded, `encoding.py` turns columns into buffers, `page.py` puts them into `page.html` with
`style.css` and the scripts.
"""
