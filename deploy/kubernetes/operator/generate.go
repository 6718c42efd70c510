package main

//go:generate ./generate.sh
