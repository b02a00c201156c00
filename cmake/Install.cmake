# cmake --install: a tree that may be moved: bin/mgtrain, its data, recipes and pages under share/mgtrain, and beside
# them in lib/ the shared libraries of LibTorch it loads (found by $ORIGIN). With CUDA these are over 3 GB: then the
# program goes on using LibTorch where it stands, unless MGTRAIN_INSTALL_LIBTORCH is ON.
include(GNUInstallDirs)

if(MGTRAIN_WITH_CUDA)
  option(MGTRAIN_INSTALL_LIBTORCH "Copy LibTorch's shared libraries into the installed tree" OFF)
else()
  option(MGTRAIN_INSTALL_LIBTORCH "Copy LibTorch's shared libraries into the installed tree" ON)
endif()

if(MGTRAIN_INSTALL_LIBTORCH)
  set_target_properties(mgtrain PROPERTIES INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
  set(_ours "")
  foreach(_dir IN LISTS MGTRAIN_TORCH_LIBRARY_DIRS)
    get_filename_component(_dir ${_dir} REALPATH)
    string(REGEX REPLACE "([][+.*()^$?|\\])" "\\\\\\1" _dir ${_dir})
    list(APPEND _ours "^${_dir}/")
  endforeach()
  install(TARGETS mgtrain RUNTIME_DEPENDENCIES POST_INCLUDE_REGEXES ${_ours} POST_EXCLUDE_REGEXES "."
    RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  file(GLOB _torch_licenses ${MGTRAIN_TORCH_ROOT}/../torch-*.dist-info/licenses/LICENSE ${MGTRAIN_TORCH_ROOT}/../torch-*.dist-info/licenses/NOTICE)
  install(FILES ${_torch_licenses} DESTINATION ${CMAKE_INSTALL_DATADIR}/mgtrain/licenses/libtorch)
else()
  set_target_properties(mgtrain PROPERTIES INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR};${MGTRAIN_TORCH_RPATH}")
  install(TARGETS mgtrain RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

# The embedded set, not what get_data.sh has brought.
install(DIRECTORY data/fashion-mnist-subset DESTINATION ${CMAKE_INSTALL_DATADIR}/mgtrain)
install(FILES data/README.md DESTINATION ${CMAKE_INSTALL_DATADIR}/mgtrain RENAME DATA.md OPTIONAL)
install(DIRECTORY configs docs DESTINATION ${CMAKE_INSTALL_DATADIR}/mgtrain)
# What the program's messages name.
install(PROGRAMS scripts/pt_to_safetensors.py DESTINATION ${CMAKE_INSTALL_DATADIR}/mgtrain/scripts)
install(FILES LICENSE README.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DATADIR}/mgtrain)
