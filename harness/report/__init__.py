"""The page ``results/report/index.html``: everything that was run and published, for a reader without tools."""
