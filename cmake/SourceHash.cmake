# Writes OUTPUT, a C++ source that defines compiler_version(): the hash of the sources under FOLDERS
# (separated by commas) of ROOT. Run as a script when one of them changes, so that caches never outlive the compiler that
# filled them.
set(digests "")
string(REPLACE "," ";" FOLDERS "${FOLDERS}")
foreach(folder ${FOLDERS})
  file(GLOB_RECURSE sources RELATIVE ${ROOT} ${ROOT}/${folder}/*)
  list(SORT sources)
  foreach(source ${sources})
    file(SHA256 ${ROOT}/${source} digest)
    string(APPEND digests "${source} ${digest}\n")
  endforeach()
endforeach()
string(SHA256 hash "${digests}")
file(WRITE ${OUTPUT} "#include \"compile/version.h\"

namespace braze::compile {

std::string_view compiler_version() { return \"${hash}\"; }

}  // namespace braze::compile
")
