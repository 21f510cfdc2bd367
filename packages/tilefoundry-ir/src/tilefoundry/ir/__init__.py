"""The typed tensor IR. Submodules load on demand, so that ``tilefoundry.ir.layout`` costs the standard library only."""
