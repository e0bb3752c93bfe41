// Command holdfast-vet finds mistakes with locks at compile time:
//
//	go vet -vettool=$(which holdfast-vet) ./...
//	holdfast-vet -fix ./...
package main

import (
	"golang.org/x/tools/go/analysis/multichecker"

	"github.com/holdfast-go/holdfast/vet"
)

func main() { multichecker.Main(vet.Analyzers...) }
