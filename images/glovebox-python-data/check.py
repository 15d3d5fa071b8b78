# SPDX-License-Identifier: Apache-2.0
# Run in a box that is made of the image; what fails here fails the build.
import os
import shutil

os.environ["MPLBACKEND"] = "Agg"
os.environ["MPLCONFIGDIR"] = "/tmp"
import matplotlib.pyplot as plt  # noqa: E402
import numpy  # noqa: E402
import pandas  # noqa: E402
import scipy.linalg  # noqa: E402
import sklearn.linear_model  # noqa: E402
import yt_dlp  # noqa: E402, F401

assert pandas.DataFrame({"x": numpy.arange(4)})["x"].sum() == 6
assert abs(scipy.linalg.det(numpy.eye(3)) - 1) < 1e-9
model = sklearn.linear_model.LinearRegression().fit([[0], [1]], [0, 1])
assert abs(model.predict([[2]])[0] - 2) < 1e-9
plt.plot([1, 2])
plt.savefig("/tmp/check.png")
for program in ("bash", "curl", "git", "ps"):
    assert shutil.which(program), f"{program} is missing"
