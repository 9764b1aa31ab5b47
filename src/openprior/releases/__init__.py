"""What is handed over: a release with its certificate, answers, intervals and measurements, as a folder."""
