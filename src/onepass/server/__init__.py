"""HTTP around a trained model: `onepass serve`.

run.py         binds the address, handles signals        app.py         the routes
protocol.py    deadlines and limits of a connection      compatible.py  routes in other servers' shapes
batcher.py     requests into batches of tokens           keys.py        who may ask, and how much
pool.py        worker processes, watched and replaced    changes.py     tasks taught, installed, removed while serving
worker.py      the process that holds the model          page/          the page at /
start_worker.py  its start                               priority.py    who waits for whom when cores are busy
follower.py    takes over what others put into the folder

Nothing here imports torch but the worker, and only where the model is not an exported engine.
"""
