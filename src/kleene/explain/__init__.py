"""Plans and runs for people: as text, pictures and notebook cells, and a run of automata event by event.

Plans are plain data and know nothing of this layer. What is drawn here is never executed.
"""
