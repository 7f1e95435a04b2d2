"""Reports on many runs; figures, videos and open-loop predictions of one."""
