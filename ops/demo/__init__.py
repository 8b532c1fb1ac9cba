"""`make demo`: one story, an ungated join and ours side by side, judged by an independent check.

``data`` makes the records, ``topics`` moves them in and out of Kafka, ``ungated`` is the other job,
``run`` tells the story, ``check`` judges what came out, ``report`` prints it.
"""
