"""Distribution: how much faster more cores are, what slices of time cost, and how much memory very many events take."""
