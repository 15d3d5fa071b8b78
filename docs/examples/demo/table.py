# What an agent might write: compute a table, print it, draw it.
import math
import os

rows = [(n, math.factorial(n), math.sqrt(2 * math.pi * n) * (n / math.e) ** n) for n in range(1, 11)]

print(f"{'n':>3} {'n!':>10} {'Stirling':>13} {'error':>7}")
for n, exact, estimate in rows:
    print(f"{n:3} {exact:10} {estimate:13.1f} {100 * (exact - estimate) / exact:6.2f}%")

try:
    import matplotlib
except ImportError:
    print("(no matplotlib in this box: no plot)")
else:
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plt.plot([n for n, _, _ in rows], [100 * (e - s) / e for _, e, s in rows], "o-")
    plt.xlabel("n")
    plt.ylabel("error of Stirling's formula, %")
    plt.savefig("stirling.png")
    print(f"plot: {os.getcwd()}/stirling.png")
