#include "capture/world/write_log.h"

namespace braze::capture {

namespace {

Ref interned(PyObject* name) {
  Py_INCREF(name);
  PyUnicode_InternInPlace(&name);
  return Ref::steal(name);
}

}  // namespace

const Write* WriteLog::written(PyObject* owner, PyObject* name) const {
  if (is_unwritten(owner)) return nullptr;
  auto it = index_.find({owner, name});
  if (it == index_.end() && name && !PyUnicode_CHECK_INTERNED(name)) {
    Ref same = interned(name);
    it = index_.find({owner, same.get()});
  }
  return it == index_.end() ? nullptr : &log_[it->second];
}

bool WriteLog::has_attributes_of(PyObject* owner) const {
  for (const Write& write : log_)
    if (write.owner.get() == owner) return true;
  return false;
}

void WriteLog::write(Write::Kind kind, PyObject* owner, PyObject* key_owner, PyObject* name,
                     PyObject* value) {
  ++count_;
  Ref key = name ? interned(name) : Ref();
  auto [it, fresh] = index_.try_emplace({key_owner, key.get()}, log_.size());
  if (fresh) {
    log_.push_back({kind, Ref::borrow(owner), key, Ref()});
    written_owners_[key_owner] = true;
    held_.push_back(Ref::borrow(key_owner));
  }
  log_[it->second].value = Ref::borrow(value);
}

void WriteLog::forget(PyObject* key_owner, PyObject* name) {
  index_.erase({key_owner, interned(name).get()});
}

bool WriteLog::move_into(PyObject* dict_copy, PyObject* owner) {
  for (Write& write : log_) {
    if (write.owner.get() != owner || write.kind != Write::Kind::kAttribute) continue;
    if (write.value) {
      if (PyDict_SetItem(dict_copy, write.name.get(), write.value.get()) < 0) return false;
    } else if (PyDict_DelItem(dict_copy, write.name.get()) < 0) {
      PyErr_Clear();
    }
    index_.erase({PyModule_Check(owner) ? PyModule_GetDict(owner) : owner, write.name.get()});
    write.owner = Ref();
  }
  return true;
}

}  // namespace braze::capture
