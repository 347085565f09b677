#include <Python.h>
#include <gtest/gtest.h>

#include "guard_module.h"

// An interpreter that finds the packages of the one that PyTorch was found with.
static bool start_python() {
  PyImport_AppendInittab("guard_sets", braze::guard::testing::make_module);
  PyConfig config;
  PyConfig_InitPythonConfig(&config);
  config.install_signal_handlers = 0;
  config.use_hash_seed = 1;  // where hashes meet, a set and its copy have different orders
  config.hash_seed = 0;
  PyStatus status = PyConfig_SetBytesString(&config, &config.executable, BRAZE_PYTHON);
  if (!PyStatus_Exception(status))
    status = PyConfig_SetBytesString(&config, &config.program_name, BRAZE_PYTHON);
  if (!PyStatus_Exception(status)) status = Py_InitializeFromConfig(&config);
  PyConfig_Clear(&config);
  return !PyStatus_Exception(status);
}

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (!start_python()) return 1;
  return RUN_ALL_TESTS();
}
