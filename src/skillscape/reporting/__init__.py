"""What is told of finished runs: a report on many of them, figures, videos and open-loop predictions of one."""
