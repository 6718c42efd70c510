#!/bin/sh
# Makes the generated files of the operator: messages of the master's protocol, copies of the API
# types, the CRD, and ../install.yaml. Needs protoc, and Go with a module proxy for the plugins.
# With --check, it fails if that changed a file.
set -eu
cd "$(dirname "$0")"
digest() {
  sha256sum internal/pb/platform.pb.go api/v1alpha1/zz_generated.deepcopy.go config/*.yaml \
    ../install.yaml
}
before=$(digest)
tools=$(pwd)/../../../build/operator-tools
proto=$(pwd)/../../../proto
mkdir -p "$tools"

want() {  # want NAME MODULE@VERSION
  if ! [ -x "$tools/$1@${2##*@}" ]; then
    GOBIN=$tools go install "$2"
    mv "$tools/$1" "$tools/$1@${2##*@}"
  fi
  ln -sf "$1@${2##*@}" "$tools/$1"
}
want protoc-gen-go google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.12
want controller-gen sigs.k8s.io/controller-tools/cmd/controller-gen@v0.19.0

PATH=$tools:$PATH protoc -I "$proto" \
  --go_out=. --go_opt=module=paceline.dev/operator \
  --go_opt=Mpaceline/v1/platform.proto=paceline.dev/operator/internal/pb \
  paceline/v1/platform.proto

"$tools/controller-gen" object paths=./api/... \
  crd:generateEmbeddedObjectMeta=true output:crd:artifacts:config=config
sed -i '/controller-gen.kubebuilder.io\/version/d; /^  annotations:$/d' \
  config/paceline.dev_elasticjobs.yaml
go run ./internal/crd config/paceline.dev_elasticjobs.yaml
{
  echo "# Installs the operator: the resource ElasticJob, the operator's rights, and itself."
  echo "# Made by operator/generate.sh from operator/config. Change those files instead."
  cat config/paceline.dev_elasticjobs.yaml
  for part in namespace rbac operator; do
    echo ---
    cat "config/$part.yaml"
  done
} > ../install.yaml
gofmt -l -w api
if [ "${1-}" = --check ] && [ "$before" != "$(digest)" ]; then
  echo "operator/generate.sh: its files were not made from the present sources; commit them" >&2
  exit 1
fi
