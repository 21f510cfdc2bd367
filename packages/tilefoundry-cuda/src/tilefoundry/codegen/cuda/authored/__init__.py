"""Programs whose authors placed them: their scopes become kernels as they are written."""

from tilefoundry.codegen.cuda.authored.kernel import is_placed, schedule_placed
from tilefoundry.codegen.cuda.authored.outline import OutlineScopes
from tilefoundry.codegen.cuda.authored.refusal import NotFollowed, PlacementWarning

__all__ = ["NotFollowed", "OutlineScopes", "PlacementWarning", "is_placed", "schedule_placed"]
