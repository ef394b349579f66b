"""What every layer may use: errors with places and hints, the schema of events, Arrow columns, arrays, memory and paths.

It knows neither queries nor plans.
"""
