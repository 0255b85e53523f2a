"""The machines' API: OpenAPI at `/api/v1/docs`."""

from ninja import NinjaAPI

from debugger.api.approval_routes import router as approvals
from debugger.api.audit_routes import router as audits
from debugger.api.bodies import StrictParser
from debugger.api.contract_routes import router as contracts
from debugger.api.destination_routes import router as destination
from debugger.api.errors import install_errors
from debugger.api.record_routes import router as record
from debugger.api.recorder_routes import router as recorder
from debugger.api.sources import router as sources

api = NinjaAPI(
    title="Branchgate",
    version="1",
    description="Receipts in, permits out. Content never passes here except sealed, and is never kept.",
    urls_namespace="api",
    parser=StrictParser(),
)
install_errors(api)
api.add_router("", record)
api.add_router("", recorder)
api.add_router("", audits)
api.add_router("", contracts)
api.add_router("", approvals)
api.add_router("", destination)
api.add_router("", sources)
