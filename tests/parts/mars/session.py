"""A session of Mars: a sum in 16 parts, and the names of the pods that functions run in.

Mars runs equal calls of a function once.
"""

import os
import time

import mars
import mars.remote
import mars.tensor as mt


def where(seconds):
    time.sleep(seconds)
    return os.environ["MARS_K8S_POD_NAME"].rpartition("-")[0]


session = mars.new_session("http://sales-scheduler-0:7103")
total = (mt.ones((1000, 1000), chunk_size=250) * 2).sum().execute(session=session).fetch()
calls = mars.remote.ExecutableTuple([mars.remote.spawn(where, 1 + n / 10) for n in range(6)])
print("sum", total, "on", *sorted(set(calls.execute(session=session).fetch())))
