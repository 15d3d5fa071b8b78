/* SPDX-License-Identifier: Apache-2.0
 *
 * The module _glovebox: the C half of a template. It uses the stable ABI, so one build serves every Python 3.8 and
 * later of the same C library. glovebox_template.py calls it. */
#define Py_LIMITED_API 0x03080000
#include <Python.h>

#include "runner/python/child.h"

#include <errno.h>
#include <sys/wait.h>

#define SMALL_BLOCK_STEP 16
#define SMALL_BLOCK_MAX 512
#define FILL_BYTES (256 * 1024) /* of blocks of one size: more than the holes that were seen */

static struct image_hot *hot; /* settled; NULL: there is none */

static PyObject *fail(int r)
{
        errno = -r;
        return PyErr_SetFromErrno(PyExc_OSError);
}

static PyObject *py_prepare(PyObject *self, PyObject *unused)
{
        image_prepare();
        Py_RETURN_NONE;
}

/* The same for Python's own allocator as image_merge() does for malloc(): each size of small blocks has pages with room
 * in many places. These blocks are never freed. */
static void fill_pools(void)
{
        for (size_t size = SMALL_BLOCK_STEP; size <= SMALL_BLOCK_MAX; size += SMALL_BLOCK_STEP)
                for (size_t n = 0; n < FILL_BYTES / size; n++)
                        if (!PyObject_Malloc(size))
                                return;
}

static PyObject *py_merge(PyObject *self, PyObject *unused)
{
        struct image_stats stats = {0};

        fill_pools();
        int r = image_merge(&stats);
        if (r < 0)
                return fail(r);
        return Py_BuildValue("IIKK", stats.mappings_before, stats.mappings_after, (unsigned long long)stats.copied_bytes,
                             (unsigned long long)stats.resident_bytes);
}

/* What a child does first, done once by a child that nobody gets: the pages it touches are those that all will. */
static void run_trial(PyObject *callable, struct image_hot *record)
{
        PyObject *result = PyObject_CallObject(callable, NULL);

        _exit(result && image_record(record) == 0 ? 0 : 1);
}

static PyObject *py_trial(PyObject *self, PyObject *callable)
{
        struct image_hot *record = image_hot_new();
        int status = 0;

        if (!record)
                return fail(-ENOMEM);
        pid_t pid = child_fork();
        if (pid == 0)
                run_trial(callable, record);
        if (pid < 0)
                return fail((int)pid);
        while (waitpid(pid, &status, __WALL) < 0)
                if (errno != EINTR)
                        return fail(-errno);
        if (status != 0)
                return PyBool_FromLong(0);
        int r = image_hot_settle(record);
        if (r < 0)
                return fail(r);
        hot = record;
        return PyBool_FromLong(1);
}

static PyObject *py_serve(PyObject *self, PyObject *args)
{
        int socket;
        const char *missing;

        if (!PyArg_ParseTuple(args, "is", &socket, &missing))
                return NULL;
        child_serve(socket, hot, missing);
        return PyLong_FromLong(BOX_CONTROL_FD);
}

static PyMethodDef methods[] = {
        {"prepare", py_prepare, METH_NOARGS, "Keeps malloc from mapping blocks of their own until merge()."},
        {"merge", py_merge, METH_NOARGS, "Makes this process cheap to fork: (mappings before, after, bytes copied, resident)."},
        {"trial", py_trial, METH_O, "Forks a child that calls the argument, to learn which pages children touch. True: learnt."},
        {"serve", py_serve, METH_VARARGS, "serve(socket, missing): forks children on the warden's orders; returns in each of them."},
        {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {
        PyModuleDef_HEAD_INIT, .m_name = "_glovebox", .m_doc = "The C half of a glovebox template.", .m_size = -1, .m_methods = methods,
};

PyMODINIT_FUNC PyInit__glovebox(void);
PyMODINIT_FUNC PyInit__glovebox(void)
{
        return PyModule_Create(&module);
}
