"""A worker process: Celery's threads wait, runs live on one event loop."""
