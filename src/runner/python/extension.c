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

/* What a child does first, done once by a child that nobody gets: the pages it touches are those that all will. */
static struct image_hot *try_out(PyObject *trial)
{
        struct image_hot *hot = image_hot_new();
        int status = 0;

        pid_t pid = hot ? child_fork() : -1;
        if (pid == 0) {
                PyObject *result = PyObject_CallObject(trial, NULL);
                _exit(result && image_record(hot) == 0 ? 0 : 1);
        }
        if (pid < 0)
                return NULL;
        while (waitpid(pid, &status, __WALL) < 0)
                if (errno != EINTR)
                        return NULL;
        return status == 0 && image_hot_settle(hot) == 0 ? hot : NULL;
}

/* From the merge on the template runs C only, and C that writes nowhere but to its stack: a page that it writes to is its own
 * from then on, and each fork copies it, with the page tables of everything around it. */
static PyObject *py_serve(PyObject *self, PyObject *args)
{
        struct image_stats stats;
        struct image_hot *hot = NULL;
        PyObject *trial;
        const char *missing;
        int socket, trial_socket;

        if (!PyArg_ParseTuple(args, "Oiis", &trial, &trial_socket, &socket, &missing))
                return NULL;
        fill_pools();
        if (image_merge(&stats) == 0)
                hot = try_out(trial); /* without either forks cost more, nothing else */
        close(trial_socket);
        close(BOX_CONTROL_FD);
        child_serve(socket, hot, missing);
        return PyLong_FromLong(BOX_CONTROL_FD);
}

static PyMethodDef methods[] = {
        {"prepare", py_prepare, METH_NOARGS, "Keeps malloc from mapping blocks of their own until serve()."},
        {"serve", py_serve, METH_VARARGS,
         "serve(trial, trial_socket, socket, missing): makes this process cheap to fork, calls trial() in a child to learn which pages "
         "children touch, then forks children on the warden's orders; returns in each of them."},
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
